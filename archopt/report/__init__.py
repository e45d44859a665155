"""What people look at: terminal summary, live progress, tables and one HTML file, made from plain data.

Everything here reads the recommendation (a dict, the schema of recommendation.json) and the trials (a list of dicts);
nothing here opens a study or trains. Submodules are imported where they are used.
"""
