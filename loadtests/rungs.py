"""The ladder, as far as no account comes to its cost ceiling.

Run it: RANKSIM_KEY=... locust -f loadtests/rungs.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Rungs = user_class("rungs")
