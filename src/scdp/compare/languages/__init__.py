"""Tables of languages: what one name may also be, and Latin letters for other writing."""
