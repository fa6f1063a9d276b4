"""How dates are written in German: as short as in English."""

DATE_FORMAT = "j. N Y"
DATETIME_FORMAT = "j. N Y, H:i"
SHORT_DATETIME_FORMAT = "j. N, H:i"
MONTH_DAY_FORMAT = "j. F"
TIME_FORMAT = "H:i"
