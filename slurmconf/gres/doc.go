// Package gres writes and reads gres.conf: the lines of each node's GPUs, made from what
// the node reports and from the lines that are published.
//
// The package is pure: text in, text out. Package lint judges the file.
package gres
