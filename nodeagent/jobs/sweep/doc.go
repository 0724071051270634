// Package sweep compares the exporter's job mapping with the jobs of this node, and
// repairs the mapping. A plan is made of data alone. It is applied under the run
// directory's lock.
package sweep
