"""`hak ab`: is the treatment better than the control?"""
