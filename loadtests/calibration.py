"""The open choices: window algorithm, phase and scope; cooldowns; what the count of 20 counts.

Run it: RANKSIM_KEY=... locust -f loadtests/calibration.py --host https://api.example.com
"""

from ranksim.load.users import user_class

Calibration = user_class("calibration")
