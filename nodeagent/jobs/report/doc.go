// Package report says how jobs use their GPUs, or have used them: what quoin job
// shows. It reads the records and uses of the run directory and the summaries of
// ended jobs, and writes tables, JSON, and what Jobstats keeps of a job.
package report
