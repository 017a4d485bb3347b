"""The paper's experiments: tasks, systems, the run that can be resumed, and the tables, figures and page it makes."""
