package local

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/dcgm/atomicfile"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
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

// CountNodes counts the nodes in the list of the machine's own IMEX service, below root. It returns nil
// if a file cannot be read.
func CountNodes(root string) *int {
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
	return &nodes
}

// readNames reads the names beside a list of nodes. Without the file there are none.
func readNames(nodes string) (map[string]string, error) {
	path := filepath.Join(filepath.Dir(nodes), NamesFile)
	data, err := atomicfile.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := parseNames(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return names, nil
}

// parseNames reads lines of an address and a name. Two lines with one address or one name are an error,
// because nobody knows which line is right.
func parseNames(text []byte) (map[string]string, error) {
	names, taken := map[string]string{}, map[string]bool{}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		host := hostOf(words[0])
		if len(words) != 2 || host == "" || hostlist.CheckName(words[1]) != nil || names[host] != "" || taken[words[1]] {
			return nil, fmt.Errorf("line %d: want an address and a name in Slurm, each once", number)
		}
		names[host], taken[words[1]] = words[1], true
	}
	return names, nil
}
