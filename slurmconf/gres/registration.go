package gres

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// Registration is what slurmd registers of a node's GPUs with slurmctld, by lines or by detection.
// One text of gres.conf may stand for another only if both give the same: see Same.
type Registration struct {
	// GPUs are in slurmd's order.
	GPUs []RegisteredGPU
	// Count is how many there are. It may be known although the GPUs are not. 0: it is not known.
	Count int
	// Unknown says why the GPUs are not known. It is empty if they are.
	Unknown string
	// Drains says why slurmctld drains a node that registers so. It is empty if it does not. It is true
	// if Slurm counts so many sockets.
	Drains  string
	Sockets int
}

// RegisteredGPU is a device in slurmd's list.
type RegisteredGPU struct {
	// Device is one file, or the files of MultipleFiles with commas between them.
	Device
	// Type is the Type= of a line, or the product's name of a GPU that slurmd finds.
	Type string
	// Cores are of whole sockets. They are empty if the device is near to all.
	Cores string
	// Links are the Links= of a line.
	Links []int
}

// Listed returns what a node registers by its lines.
func Listed(lines []Line) Registration {
	way, gpus, err := readLines(lines)
	switch {
	case err != nil:
		return Registration{Unknown: err.Error()}
	case way != "" && way != AutoDetectOff:
		return Registration{Unknown: "slurmd detects its GPUs"}
	}
	return Registration{GPUs: gpus, Count: len(gpus)}
}

// unseenMIG says why AutoDetect=nvidia is not for a node.
const unseenMIG = "MIG is on, and AutoDetect=nvidia finds no MIG instances"

// Found returns what a node registers by AutoDetect=nvidia: whole GPUs, each with the cores that it is
// next to. Only a report says which these are.
func (o *Options) Found(f *topology.Facts) Registration {
	r := Registration{Count: f.GPUCount()}
	switch {
	case f.Shared:
		return Registration{Unknown: "several worker pods share its GPUs"}
	case f.HasMIG():
		return Registration{Unknown: unseenMIG}
	case f.Report == nil:
		r.Unknown = "it has no report"
		return r
	}
	gpus := f.Report.GRESOrder()
	shape := shapeOf(f.Report.Sockets)
	cores := coresOf(shape, gpus)
	r.Sockets = shape.sockets
	for i := range gpus {
		g := &gpus[i]
		if g.Minor == nil || g.Product == "" {
			r.Unknown = fmt.Sprintf("its report does not have product and minor number of GPU %s", g.UUID)
			return r
		}
		file, near := deviceFile(*g.Minor), shape.near(g.CPUAffinity) // nodes that are alike share what is said of a file
		switch {
		case near == nil:
			r.Unknown = fmt.Sprintf("its report does not say which sockets %s is next to", file)
			return r
		case !FitSockets(near, shape.cpus(), o.SeveralSockets) && r.Drains == "":
			r.Drains = fmt.Sprintf("%s is next to CPUs %s, which are not one whole socket or all", file, g.CPUAffinity)
		}
		r.GPUs = append(r.GPUs, RegisteredGPU{Device: Device(file), Type: g.Product, Cores: cores[i]})
	}
	return r
}

// Same reports whether a node registers the same by lines and by detection, and slurmctld drains it for
// neither. What is unknown is not the same.
//
// Cores that the lines leave out are not compared: the node then has the same GPUs, and jobs may have
// cores of any socket. A node with GPUs of several Types is not the same, because slurmd puts listed GPUs
// into the order of Gres= in slurm.conf.
func Same(listed, found Registration) bool {
	if listed.Unknown+found.Unknown+listed.Drains+found.Drains != "" {
		return false
	}
	return slices.EqualFunc(listed.GPUs, found.GPUs, func(a, b RegisteredGPU) bool {
		return a.Device == b.Device && a.Type == listed.GPUs[0].Type && isOfType(b.Type, a.Type) && (a.Cores == "" || a.Cores == b.Cores) && slices.Equal(a.Links, b.Links)
	})
}

// isOfType reports whether slurmd takes a GPU that it finds for one of a Type.
func isOfType(product, typ string) bool {
	return strings.Contains(strings.ReplaceAll(strings.ToLower(product), " ", "_"), strings.ToLower(typ))
}
