"""How dates are written in English: short, and the same everywhere in the world."""

DATE_FORMAT = "j M Y"
DATETIME_FORMAT = "j M Y, H:i"
SHORT_DATETIME_FORMAT = "j M, H:i"
MONTH_DAY_FORMAT = "j F"
TIME_FORMAT = "H:i"
