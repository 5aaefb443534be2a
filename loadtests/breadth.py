"""Each resource made, read, changed, walked and removed; each POST repeated; each kind of answer.

Run it: RANKSIM_KEY=... locust -f loadtests/breadth.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Breadth = user_class("breadth")
