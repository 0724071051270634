package local

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
)

// The list of a domain's nodes, which nvidia-imex reads, and the names of these nodes in Slurm,
// which it does not know. The two files are beside each other.
const (
	NodesFile = "nodes_config.cfg"
	NamesFile = "nodes_names.cfg"
)

// FormatNodes returns the contents of NodesFile and of NamesFile, in order of the addresses.
func FormatNodes(names map[netip.Addr]string) (nodes, named []byte) {
	var list, text bytes.Buffer
	text.WriteString("# The nodes of nodes_config.cfg and their names in Slurm, written by quoin imex nodes-config.\n")
	for _, address := range slices.SortedFunc(maps.Keys(names), netip.Addr.Compare) {
		fmt.Fprintln(&list, address)
		fmt.Fprintln(&text, address, names[address])
	}
	return list.Bytes(), text.Bytes()
}

// NamesPeers reports whether the list of the machine's own IMEX service, below root, has several
// nodes. It is nil if a file cannot be read.
func NamesPeers(root string) *bool {
	text, err := atomicfile.Read(filepath.Join(root, hostConfig))
	if err != nil {
		return nil
	}
	list, err := atomicfile.Read(filepath.Join(root, parseConfig(text).nodes))
	if err != nil {
		return nil
	}
	nodes := 0
	for line := range strings.Lines(string(list)) {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) != "" {
			nodes++
		}
	}
	return new(nodes > 1)
}

// readNames reads the names beside a list of nodes. Without the file there are none.
func readNames(nodes string) map[netip.Addr]string {
	data, err := atomicfile.Read(filepath.Join(filepath.Dir(nodes), NamesFile))
	if err != nil {
		return nil
	}
	return parseNames(data)
}

// parseNames reads lines of an address and a name. A line that is none of these costs one
// name, and an address or a name that two lines have costs these.
func parseNames(text []byte) map[netip.Addr]string {
	names, times := map[netip.Addr]string{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) != 2 {
			continue
		}
		address, err := netip.ParseAddr(words[0])
		name := cleanName(words[1])
		if err != nil || name == "" {
			continue
		}
		address = address.Unmap().WithZone("")
		if old, is := names[address]; is && old != name {
			name = ""
		}
		names[address] = name
	}
	for _, name := range names {
		times[name]++
	}
	maps.DeleteFunc(names, func(_ netip.Addr, name string) bool { return name == "" || times[name] > 1 })
	return names
}
