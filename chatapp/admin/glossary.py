"""The glossary on the overview of the admin."""

from django.utils.translation import gettext_lazy

TERMS = (
    (
        gettext_lazy("Access token"),
        gettext_lazy(
            "Lets a program act for a member, within the permissions that the member chose."
        ),
    ),
    (
        gettext_lazy("Activity log"),
        gettext_lazy(
            "Who did, decided or changed what, and the outcome of each call. The log is "
            "tamper-evident."
        ),
    ),
    (gettext_lazy("Allowance"), gettext_lazy("How much a member or a group may use in a month.")),
    (
        gettext_lazy("Approval"),
        gettext_lazy("The request to approve a tool call before it runs, and who decided."),
    ),
    (
        gettext_lazy("Assistant"),
        gettext_lazy("A saved way to start a chat: instructions, model, mode and services."),
    ),
    (gettext_lazy("Chat"), gettext_lazy("A conversation of one member with the assistant.")),
    (
        gettext_lazy("Delegate"),
        gettext_lazy("A member who may approve in place of an approver for a set time."),
    ),
    (
        gettext_lazy("Exchange"),
        gettext_lazy("One request to a service and its response, kept for troubleshooting."),
    ),
    (
        gettext_lazy("Feedback"),
        gettext_lazy("How members rate answers, with their comments."),
    ),
    (
        gettext_lazy("Group"),
        gettext_lazy(
            "A set of members. Services, models, rules and allowances can be for a group."
        ),
    ),
    (
        gettext_lazy("Identity provider"),
        gettext_lazy("Where a company’s staff sign in, once for all services that trust it."),
    ),
    (
        gettext_lazy("Invitation"),
        gettext_lazy("A link with which one person makes an account. It works once."),
    ),
    (
        gettext_lazy("Member"),
        gettext_lazy("A person who signs in to Countersign. Admins are members, too."),
    ),
    (
        gettext_lazy("Model"),
        gettext_lazy("One model of a provider: what it can do, what it costs and who may use it."),
    ),
    (
        gettext_lazy("Policy change"),
        gettext_lazy("Edits of policy that are drafted, tested and then applied together."),
    ),
    (
        gettext_lazy("Policy for everybody"),
        gettext_lazy("What runs without asking, and what members may allow in advance."),
    ),
    (
        gettext_lazy("Policy test"),
        gettext_lazy(
            "A call and its expected decision. A policy change that fails this test is not saved."
        ),
    ),
    (
        gettext_lazy("Provider"),
        gettext_lazy(
            "Where models run: an address and a key, stored here or in the server’s environment."
        ),
    ),
    (
        gettext_lazy("Rule"),
        gettext_lazy(
            "What happens to certain calls: they run, need approval every time, or are refused."
        ),
    ),
    (
        gettext_lazy("Saved prompt"),
        gettext_lazy("A text that members put into their messages again."),
    ),
    (
        gettext_lazy("Search by meaning"),
        gettext_lazy("Finds passages in project files that mean the same in other words."),
    ),
    (
        gettext_lazy("Second-approval requirement"),
        gettext_lazy("Which group must also approve a call, by when, and which group may step in."),
    ),
    (
        gettext_lazy("Service"),
        gettext_lazy("A connected MCP server that offers tools, with its address and credentials."),
    ),
    (
        gettext_lazy("Shared link"),
        gettext_lazy("Shows one chat to others, read-only, until it expires or is revoked."),
    ),
    (
        gettext_lazy("Task Result"),
        gettext_lazy(
            "One run of a background task, such as sending an email, and its error if it failed."
        ),
    ),
    (
        gettext_lazy("Tool call"),
        gettext_lazy("One use of a tool in a turn, with its arguments and outcome."),
    ),
    (
        gettext_lazy("Tool definition"),
        gettext_lazy(
            "How a service describes one tool. When the definition changes, the tool needs "
            "approval every time until the new definition is confirmed."
        ),
    ),
    (
        gettext_lazy("Tool limit"),
        gettext_lazy(
            "How often a member may call a tool per day before further calls need approval."
        ),
    ),
    (
        gettext_lazy("Trial"),
        gettext_lazy("One run of a tool by an admin, started by hand with “Try it”."),
    ),
    (gettext_lazy("Turn"), gettext_lazy("Everything that follows one message from a member.")),
    (gettext_lazy("Usage"), gettext_lazy("How much members used each model, day by day.")),
    (
        gettext_lazy("Webhook"),
        gettext_lazy("A channel or program outside that is told what waits for whom."),
    ),
)


def list_terms() -> list[tuple[str, str]]:
    """Return the terms and their meanings, sorted in the language of the reader."""
    terms = [(str(term), str(meaning)) for term, meaning in TERMS]
    return sorted(terms, key=lambda pair: pair[0].casefold())
