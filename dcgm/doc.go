// Package dcgm writes the job mapping directory that DCGM Exporter reads, and
// knows the ids that DCGM has for GPUs.
//
// The exporter reads the directory at any moment, without a lock. It fails a whole
// scrape if a file vanishes or has a line that cannot be printed. So no file is
// truncated or removed: a file is written in a folder beside and renamed over the
// old one. A line is written only if it is a job id of harmless characters.
package dcgm
