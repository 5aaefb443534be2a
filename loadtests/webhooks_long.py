"""All six attempts and their delays, and auto-disable: for a night, or a deployment with scaled time.

Run it: RANKSIM_KEY=... locust -f loadtests/webhooks_long.py --host https://api.example.com
"""

from ranksim.load.users import user_class

WebhooksLong = user_class("webhooks-long")
