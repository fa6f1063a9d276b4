"""What the chat's pages send, read strictly. What a message may say, `turns/intake.py` checks."""

from django import forms

from chatapp.turns.answers import REASON_CHARACTERS


class MessageForm(forms.Form):
    """A message. `client_id` is made with the page, so that sending twice is accepted once."""

    text = forms.CharField(required=False, strip=False)
    model = forms.CharField(required=False, max_length=200)
    client_id = forms.UUIDField(required=False)


class DecisionForm(forms.Form):
    """An answer to an approval card. `version` is the binding of what was shown."""

    decision = forms.ChoiceField(choices=[("run", "Run once"), ("deny", "Do not run")])
    scope = forms.ChoiceField(choices=[("once", "Once")], required=False)
    reason = forms.CharField(required=False, max_length=REASON_CHARACTERS)
    version = forms.CharField(max_length=64)
    shown_at = forms.CharField(required=False, max_length=200)


class ResolutionForm(forms.Form):
    """What a person says became of a call whose outcome is unknown."""

    verdict = forms.ChoiceField(choices=[(word, word) for word in ("worked", "did-not", "again")])
