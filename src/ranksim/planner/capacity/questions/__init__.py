"""The questions of capacity planners, each a module: its docstring, then the function of its name.

The function's signature is the declaration of the inputs: a flag for each parameter, with its help. It
returns an `ReadyAnswer`, from which every form of it follows. What takes long to import is imported inside.
"""
