"""Small tables of hard cases, made by hand: names in other alphabets, phones, nicknames, and names with titles."""

from __future__ import annotations

# A name as its bearer writes it, and as others write it in Latin letters.
ALPHABETS = """
王小明|Wang Xiaoming
李娜|Li Na
张伟|Zhang Wei
刘德华|Liu Dehua
陈丽|Chen Li
赵雷|Zhao Lei
杨洋|Yang Yang
周杰|Zhou Jie
黄海涛|Huang Haitao
孙文|Sun Wen
山田太郎|Yamada Taro
田中さくら|Tanaka Sakura
すずき はなこ|Suzuki Hanako
サトウ ケンジ|Satou Kenji
김철수|Kim Cheolsu
박지영|Park Jiyoung
이민호|Lee Minho
정수빈|Jung Subin
محمد علي|Mohammed Ali
أحمد حسن|Ahmed Hassan
فاطمة الزهراء|Fatima al-Zahra
عمر خالد|Omar Khaled
نور الدين|Nour Eddine
رضا کریمی|Reza Karimi
יוסף כהן|Yosef Cohen
דוד לוי|David Levi
שרה מזרחי|Sara Mizrahi
สมชาย ใจดี|Somchai Jaidee
สุดา แก้วมณี|Suda Kaewmanee
राम कुमार|Ram Kumar
प्रिया शर्मा|Priya Sharma
अमित पटेल|Amit Patel
গোপাল দাস|Gopal Das
முருகன் ராஜா|Murugan Raja
გიორგი ბერიძე|Giorgi Beridze
ნინო კაპანაძე|Nino Kapanadze
Արամ Խաչատրյան|Aram Khachatryan
Անի Պետրոսյան|Ani Petrosyan
አበበ ቢቂላ|Abebe Bikila
Иван Петров|Ivan Petrov
Ольга Шевченко|Olga Shevchenko
Юрий Щербаков|Yuri Shcherbakov
Георги Димитров|Georgi Dimitrov
Љубица Ђорђевић|Ljubica Djordjevic
Αλέξανδρος Παπαδόπουλος|Alexandros Papadopoulos
Ελένη Γεωργίου|Eleni Georgiou
Łukasz Żółkiewski|Lukasz Zolkiewski
Nguyễn Văn Đức|Nguyen Van Duc
Þórður Jónsson|Thordur Jonsson
İbrahim Çelik|Ibrahim Celik
"""

# A country, a number as the column has it, another way of writing it, and whether they are the same.
PHONES = """
GB|+44 (0)20 7946 0958|020 7946 0958|1
GB|0044 20 7946 0958|(020) 79460958|1
GB|+44 7700 900123|07700 900123 ext 4|1
GB|01632 960001 x 22|+44-1632-960001|1
GB|tel:+44-1632-960-002|01632 960002|1
GB|01632 960001|01632 960002|0
GB|+44 1632 960983|+49 1632 960983|0
GB|+44 20 7946 0958|+1 207 946 0958|0
US|(212) 555-0123|+1 212.555.0123|1
US|1-800-FLOWERS|+1 800 356 9377|1
US|011 44 20 7946 0958|+44 20 7946 0958|1
US|212-555-0123 extension 77|2125550123|1
US|212 555 0123|718 555 0123|0
US|555-0123|+1 212 555 0123|1
US|+1 416 555 0123|+52 416 555 0123|0
DE|030/901820|+49 30 901820|1
DE|0049 (0) 89-636 48018|089 63648018|1
DE|+49 (0)170 1234567|0170-1234567|1
DE|0170 1234567|0171 1234567|0
DE|+49 30 901820|+43 30 901820|0
HU|06 1 234 5678|+36 1 234 5678|1
HU|06-20-123-4567|+36 20 123 4567|1
HU|06 1 234 5678|06 1 234 5679|0
RU|8 (495) 123-45-67|+7 495 123 45 67|1
RU|8 800 555 35 35|+7 (800) 555-35-35|1
RU|8 495 123-45-67|8 812 123-45-67|0
IT|06 6982 1234|+39 06 69821234|1
IT|+39 347 1234567|347 123 4567|1
FR|01 42 68 53 00|+33 (0)1 42 68 53 00|1
FR|06 12 34 56 78|0033612345678|1
FR|06 12 34 56 78|07 12 34 56 78|0
MX|+52 1 55 1234 5678|55 1234 5678|1
MX|044 55 1234 5678|+52 55 1234 5678|1
AR|011 15-2345-6789|+54 9 11 2345 6789|1
AR|+54 11 4321-1234|011 4321 1234|1
BR|0 15 11 91234-5678|+55 11 91234 5678|1
BR|(11) 91234-5678|(21) 91234-5678|0
AU|0011 44 20 7946 0958|+44 20 7946 0958|1
AU|(02) 9374 4000|+61 2 9374 4000|1
JP|03-1234-5678|+81 3 1234 5678|1
IN|098765 43210|+91 98765 43210|1
IN|+91 98765 43210|+92 98765 43210|0
CH|044 668 18 00|+41 44 668 18 00|1
NL|020-1234567|+31 (0)20 123 4567|1
ES|912 345 678|0034 912 345 678|1
LT|8 612 34567|+370 612 34567|1
"""

# Short forms of English names that are in everyday use, and their full ones.
NICKNAMES = """
al albert|alec alexander|andy andrew|barb barbara|becky rebecca|bess elizabeth|bill william|bob robert|cathy catherine
charlie charles|chuck charles|cindy cynthia|connie constance|dan daniel|debbie deborah|delia cordelia|dick richard
don donald|dot dorothy|ed edward|fred frederick|gabe gabriel|ginger virginia|greg gregory|hank henry|jack john
jake jacob|jenny jennifer|jim james|joe joseph|josh joshua|kate katherine|ken kenneth|larry lawrence|len leonard
liz elizabeth|lottie charlotte|maggie margaret|matt matthew|meg margaret|mike michael|millie mildred|molly mary
nate nathaniel|ned edward|nell eleanor|nick nicholas|pam pamela|patsy patricia|peg margaret|pete peter|polly mary
rick richard|ron ronald|sally sarah|sam samuel|steve steven|sue susan|ted theodore|terry terence|tim timothy
tina christina|tony anthony|trudy gertrude|vicky victoria|walt walter|winnie winifred|zach zachary|zeb zebulon
barney barnabas|clem clement|della adele|effie euphemia|hetty henrietta|jed jedediah|letty letitia|lola dolores
manny emmanuel|mort mortimer|obie obadiah|roxy roxanne|tad thaddeus|thea dorothea|trixie beatrix|xina christina
"""

# A name with what stands around it, its words, and the suffix that tells people apart.
TITLED = """
Dr. John Smith, Ph.D.|john smith|
Prof. Dr. Hans Müller|hans muller|
Steven Hardman, MD, FACS|steven hardman|
Sir Ian McKellen CBE|ian mckellen|
Rev. Martin Luther King, Jr.|martin luther king|jr
KING, MARTIN LUTHER JR|martin luther king|jr
John Smith III|john smith|iii
Smith, John, III|john smith|iii
Lt. Col. James Brown (ret.)|james brown|
Brigadier General Ann Dunwoody|ann dunwoody|
The Honorable Ruth Ginsburg|ruth ginsburg|
Hon. Sonia Sotomayor|sonia sotomayor|
Capt. Jean-Luc Picard|jean luc picard|
Jane Doe, RN|jane doe|
Jane Doe, R.N., B.S.N.|jane doe|
Robert Johnson, Esq.|robert johnson|
Mary O'Brien CPA|mary obrien|
Dr. med. Petra Schulz|petra schulz|
Dipl.-Ing. Karl Weber|karl weber|
Frau Dr. Anna Meier|anna meier|
Herr Jürgen Vogel|jurgen vogel|
Mme Claire Dubois|claire dubois|
Monsieur Jean Dupont|jean dupont|
Sra. María López|maria lopez|
Don Quijote Sánchez|don quijote sanchez|
Stephen King|stephen king|
Ben Judge|ben judge|
Major Tom Jones|tom jones|
Tuan Le|tuan le|
Le, Tuan|tuan le|
Ludwig van Beethoven|ludwig beethoven|
van Beethoven, Ludwig|ludwig beethoven|
Juan de la Vega|juan vega|
Mohammed bin Salman|mohammed salman|
Vincent van Gogh Jr.|vincent gogh|jr
VAN DER BERG PETER|peter berg|
peter van der berg|peter berg|
Smith, John A.|john a smith|
J.R.R. Tolkien|j r r tolkien|
J. R. Smith Sr.|j r smith|sr
Smith JA|j a smith|
Garcia-Lopez, Maria|maria garcia lopez|
Mr. William Gates III|william gates|iii
Mr Justice Lewison|lewison|
Dame Judi Dench DBE|judi dench|
Lord Andrew Lloyd Webber|andrew lloyd webber|
Queen Elizabeth|elizabeth|
Father Brown|father brown|
Pastor Joel Osteen|joel osteen|
Rabbi Jonathan Sacks|jonathan sacks|
Sgt. Maj. Alan Gray USMC|alan gray|
Senator Bernie Sanders|bernie sanders|
Michael Smith, M.B.A.|michael smith|
Dr Alice Wong DDS|alice wong|
Nguyen Van Duc|nguyen duc|
Wei XU|wei xu|
"""


# Written before our table was extended by what the one above showed.
TITLED_LATER = """
Prof. Emeritus Alan Turing, FRS|alan turing|
Susan Clark, DVM|susan clark|
Admiral Grace Hopper|grace hopper|
Adm. Chester Nimitz (USN)|chester nimitz|
Bishop Desmond Tutu|desmond tutu|
Kate Bishop|kate bishop|
Rt Hon Gordon Brown MP|gordon brown|
Barbara Allen, J.D.|barbara allen|
Allen, B. J.|b j allen|
Thomas Lee, M.D., Ph.D.|thomas lee|
Lee, T. M.|t m lee|
Lisa Hall, LCSW|lisa hall|
Cpl. Ben Foster|ben foster|
Private James Ryan|james ryan|
Governor Jerry Brown|jerry brown|
Justice Stephen Breyer|stephen breyer|
Mr. David Marshall|david marshall|
Sister Mary Clarence|mary clarence|
Imam Omar Suleiman|omar suleiman|
Prof. Dr. Dr. h.c. Klaus Richter|klaus richter|
Mag. Eva Huber, MSc|eva huber|
Dott. Mario Rossi|mario rossi|
Ing. Pavel Novák, CSc.|pavel novak|
William Pitt the Younger|william pitt younger|
Robert Downey Jr|robert downey|jr
John Q. Public II|john q public|ii
Karen Page, P.E.|karen page|
Peter May, CFA|peter may|
Dean Martin|dean martin|
Earl Warren|earl warren|
"""


def rows(table: str) -> list[list[str]]:
    """The lines of a table, parted at its marks."""
    return [line.split("|") for line in table.strip().splitlines()]


# Surnames that are said alike.
SOUNDS = """
Meyer|Maier
Smith|Smyth
Schmidt|Schmitt
Philips|Fillips
Thompson|Tomson
Catherine|Katherine
Stephen|Steven
Knight|Night
Wright|Right
Reynolds|Renolds
Hoffmann|Hofman
Weiss|Weisz
Schulz|Schultz
Becker|Bäcker
Kowalski|Kovalsky
Nielsen|Neilson
Larsson|Larson
MacDonald|McDonald
Johnson|Johnston
Clarke|Clark
Browne|Brown
Gray|Grey
Kaufmann|Coffman
Leigh|Lee
Shaw|Schaw
Rodriguez|Rodrigues
Gonzalez|Gonsales
Fischer|Fisher
Vogel|Fogel
Dvorak|Dworak
Nguyen|Nuyen
Beauchamp|Beecham
Geoffrey|Jeffrey
Xavier|Zavier
Cholmondeley|Chumley
Wagner|Vagner
Peirce|Pierce
Stewart|Stuart
Haynes|Haines
Read|Reid
"""
