package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// cpu is a CPU that is online, as the kernel's files describe it.
type cpu struct {
	number int
	// socket is physical_package_id.
	socket string
	// core lists the CPUs of its core that are online.
	core string
}

// socketsOf groups CPUs into processor packages. Slurm orders packages as hwloc
// does: by their lowest CPU that is online. A core is known by its CPUs, because
// one core_id may stand for several cores in a package with more than one die.
func socketsOf(cpus []cpu) ([]topology.Socket, error) {
	type socket struct {
		cpus  []int
		cores map[int]bool // by their first CPU
	}
	byID := map[int]*socket{}
	seen := map[int]bool{}
	for _, c := range cpus {
		id, err := strconv.Atoi(strings.TrimSpace(c.socket))
		if err != nil || id < 0 {
			return nil, fmt.Errorf("CPU %d: physical_package_id %q: want a number of 0 or more", c.number, strings.TrimSpace(c.socket))
		}
		core, err := parseCPUs(c.core)
		switch {
		case err != nil:
			return nil, fmt.Errorf("CPU %d: its core's CPUs: %w", c.number, err)
		case !slices.Contains(core, c.number):
			return nil, fmt.Errorf("CPU %d: its core's CPUs %q are without it", c.number, strings.TrimSpace(c.core))
		case seen[c.number]:
			return nil, fmt.Errorf("CPU %d: stands twice", c.number)
		}
		seen[c.number] = true
		if byID[id] == nil {
			byID[id] = &socket{cores: map[int]bool{}}
		}
		byID[id].cpus = append(byID[id].cpus, c.number)
		byID[id].cores[core[0]] = true
	}
	var all []*socket
	for _, s := range byID {
		slices.Sort(s.cpus)
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *socket) int { return cmp.Compare(a.cpus[0], b.cpus[0]) })
	var out []topology.Socket
	for _, s := range all {
		out = append(out, topology.Socket{CPUs: formatCPUs(s.cpus), Cores: len(s.cores)})
	}
	return out, nil
}

// maxCPU bounds CPU numbers; Linux has at most 8192.
const maxCPU = 1<<16 - 1

// parseCPUs reads a list as Linux writes it, "0-35,72-107", into ascending
// numbers.
func parseCPUs(list string) ([]int, error) {
	list = strings.TrimSpace(list)
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, errFrom := strconv.ParseUint(first, 10, 32)
		to, errTo := strconv.ParseUint(last, 10, 32)
		if errFrom != nil || errTo != nil || from > to || to > maxCPU || len(out) > 0 && int(from) <= out[len(out)-1] {
			return nil, fmt.Errorf("list %q: want ascending numbers and ranges such as 0-35,72-107", list)
		}
		for n := from; n <= to; n++ {
			out = append(out, int(n))
		}
	}
	return out, nil
}

// formatCPUs writes ascending numbers as Linux does: "0-35,72-107".
func formatCPUs(cpus []int) string {
	var parts []string
	for i := 0; i < len(cpus); {
		end := i
		for end+1 < len(cpus) && cpus[end+1] == cpus[end]+1 {
			end++
		}
		part := strconv.Itoa(cpus[i])
		if end > i {
			part += "-" + strconv.Itoa(cpus[end])
		}
		parts, i = append(parts, part), end+1
	}
	return strings.Join(parts, ",")
}

// socketReader reads the CPUs below root. It reads them again when other CPUs are
// online.
type socketReader struct {
	root    string
	online  string
	sockets []topology.Socket
	err     error
}

func (s *socketReader) read() ([]topology.Socket, error) {
	dir := filepath.Join(s.root, "sys/devices/system/cpu")
	online, err := os.ReadFile(filepath.Join(dir, "online"))
	if err != nil {
		return nil, err
	}
	if s.online == "" || s.online != string(online) || s.err != nil {
		s.online = string(online)
		s.sockets, s.err = readSockets(dir, s.online)
	}
	return slices.Clone(s.sockets), s.err
}

func readSockets(dir, online string) ([]topology.Socket, error) {
	numbers, err := parseCPUs(online)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "online"), err)
	}
	cpus := make([]cpu, len(numbers))
	for i, n := range numbers {
		topology := filepath.Join(dir, fmt.Sprintf("cpu%d", n), "topology")
		socket, err := os.ReadFile(filepath.Join(topology, "physical_package_id"))
		if err != nil {
			return nil, err
		}
		core, err := os.ReadFile(filepath.Join(topology, "core_cpus_list"))
		if errors.Is(err, fs.ErrNotExist) { // its name before Linux 5.3
			core, err = os.ReadFile(filepath.Join(topology, "thread_siblings_list"))
		}
		if err != nil {
			return nil, err
		}
		cpus[i] = cpu{n, string(socket), string(core)}
	}
	sockets, err := socketsOf(cpus)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return sockets, nil
}
