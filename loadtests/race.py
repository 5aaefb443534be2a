"""Racing writers on one quota, slot and cooldown: atomic consumption, one winner, exact counts.

Run it: RANKSIM_KEY=... locust -f loadtests/race.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Race = user_class("race")
