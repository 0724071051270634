// Package hostengine asks DCGM's host engine by which ids it calls the GPUs. It
// is the only importer of go-dcgm.
//
// libdcgm may hang, crash, or end the process that calls it where it lacks a
// function (undefined symbol), so nobody but a child made for it may call it.
package hostengine
