"""Work that is no part of a turn, as tasks of Django's Tasks API: its schedule and its worker. What
a turn needs to go on is in `engine`."""
