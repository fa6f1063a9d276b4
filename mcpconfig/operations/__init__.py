"""The operations on services, one async function each: connect, act, disconnect. Opens no
connection except through session."""
