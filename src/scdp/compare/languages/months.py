"""Months by name in several languages, in Latin letters."""

from __future__ import annotations

# Those of English, German, French, Spanish, Italian, Portuguese, Dutch, Scandinavian, Polish, Russian and Turkish.
_NAMES = (
    "jan january januar janvier enero ene gennaio janeiro januari styczen stycznia yanvar yanvarya ocak",
    "feb february februar fevrier fev febrero febbraio fevereiro februari luty lutego fevral fevralya subat",
    "mar march marz mars marzo marco maerz mrz maart marzec marca mart marta",
    "apr april avril avr abril abr aprile kwiecien kwietnia aprel aprelya nisan",
    "may mai mayo maggio maio mei maj maja maya mayis",
    "jun june juni juin junio giugno junho czerwiec czerwca iyun iyunya haziran",
    "jul july juli juillet juil julio luglio julho lipiec lipca iyul iyulya temmuz",
    "aug august aout agosto ago augustus augusti sierpien sierpnia avgust avgusta agustos",
    "sep sept september septembre septiembre settembre setembro wrzesien wrzesnia sentyabr sentyabrya eylul",
    "oct okt october oktober octobre octubre ottobre outubro out pazdziernik pazdziernika oktyabr oktyabrya ekim",
    "nov november novembre noviembre novembro listopad listopada noyabr noyabrya kasim",
    "dec dez december dezember decembre diciembre dic dicembre dezembro grudzien grudnia dekabr dekabrya aralik",
)
MONTHS = {name: number for number, names in enumerate(_NAMES, start=1) for name in names.split()}
