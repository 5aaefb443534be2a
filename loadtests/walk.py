"""Walks under concurrent writes: every item once, cursors bound to their query, page sizes.

Run it: RANKSIM_KEY=... locust -f loadtests/walk.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Walk = user_class("walk")
