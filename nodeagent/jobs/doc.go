// Package jobs knows which job holds which device of the node, since when, and how
// well the job uses it. It reads the records that the job hook leaves, follows
// whether the jobs live, releases what ended jobs have left in the exporter's
// directory, and adds what living jobs lack there. It serves the series of jobs and
// devices.
package jobs
