"""Changes to a cluster. Each resource has its own outcome: the answer names each refused resource.

`Brokers.ask_controller` sends a change to the controller, finds the next controller where the role moves, and counts a
change as done where an earlier sending has made it (`client.own_work`). Three changes are sent again only where the
first sending cannot have been done. A second ElectLeaders answers that no election is needed. The second answer to
DeleteAcls names none of the deleted ACLs. A second CreateDelegationToken makes a second token.
"""
