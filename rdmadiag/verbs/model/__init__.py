"""The object model of verbs for programs in Python: rdmadiag.verbs has its names.

Built on the classes of rdmadiag.verbs.objects, in the process that imports it. No command of
rdmadiag does.
"""
