"""People around a turn: signals to their pages, second signers, delegates and sign-in links."""
