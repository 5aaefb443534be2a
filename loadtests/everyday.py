"""Mixed everyday traffic: shapes, headers, and every rule under ordinary use.

Run it: RANKSIM_KEY=... locust -f loadtests/everyday.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Everyday = user_class("everyday")
