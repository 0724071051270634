// Package hostengine asks DCGM's host engine by which ids it calls the GPUs. It
// is the only importer of go-dcgm.
//
// libdcgm may hang or crash. If it lacks a function (undefined symbol), it ends the
// process that calls it. So only a child process of its own may call it.
package hostengine
