"""Each POST sent twice at one instant under one Idempotency-Key: its work is done once.

Run it: RANKSIM_KEY=... locust -f loadtests/twins.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Twins = user_class("twins")
