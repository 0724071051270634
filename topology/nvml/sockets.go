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

// socketReader reads the processor packages below root. It reads them again when other
// CPUs are online, because they are hundreds of files.
type socketReader struct {
	root    string
	online  string
	sockets []topology.Socket
}

func (s *socketReader) read() ([]topology.Socket, error) {
	online, err := os.ReadFile(filepath.Join(s.root, "sys/devices/system/cpu/online"))
	if err != nil {
		return nil, err
	}
	if string(online) != s.online {
		sockets, err := readSockets(s.root)
		if err != nil {
			return nil, err
		}
		s.online, s.sockets = string(online), sockets
	}
	return slices.Clone(s.sockets), nil
}

// readSockets reads the processor packages below root. The kernel has a folder
// topology for each CPU that is online. There it lists the CPUs of the package and of
// the core that are online, in ascending order.
//
// Slurm orders packages as hwloc does: by their lowest CPU. A core is known by its
// CPUs, because one core_id may stand for several cores in a package with more than
// one die.
func readSockets(root string) ([]topology.Socket, error) {
	type socket struct{ cpus, core string }
	cores := map[socket]bool{}
	counts := map[string]int{} // cores of a package
	folders, err := filepath.Glob(filepath.Join(root, "sys/devices/system/cpu/cpu[0-9]*"))
	if err != nil {
		return nil, err
	}
	for _, cpu := range folders {
		dir := filepath.Join(cpu, "topology")
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue // the CPU is not online
		}
		cpus, err := readList(dir, "package_cpus_list", "core_siblings_list")
		if err != nil {
			return nil, err
		}
		core, err := readList(dir, "core_cpus_list", "thread_siblings_list")
		if err != nil {
			return nil, err
		}
		if of := (socket{cpus, core}); !cores[of] {
			cores[of] = true
			counts[cpus]++
		}
	}
	var sockets []topology.Socket
	for cpus, n := range counts {
		sockets = append(sockets, topology.Socket{CPUs: cpus, Cores: n})
	}
	slices.SortFunc(sockets, func(a, b topology.Socket) int { return cmp.Compare(firstCPU(a.CPUs), firstCPU(b.CPUs)) })
	return sockets, nil
}

// readList reads a list of CPUs, such as "0-35,72-107". old is the file's name before
// Linux 5.3.
func readList(dir, name, old string) (string, error) {
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		path = filepath.Join(dir, old)
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return "", err
	}
	list := strings.TrimSpace(string(data))
	if firstCPU(list) < 0 || strings.Trim(list, "0123456789-,") != "" {
		return "", fmt.Errorf("%s: list %q: want CPUs such as 0-35,72-107", path, list)
	}
	return list, nil
}

// firstCPU returns the first number of a list, -1 if there is none.
func firstCPU(list string) int {
	end := strings.IndexAny(list+",", "-,")
	first, err := strconv.Atoi(list[:end])
	if err != nil {
		return -1
	}
	return first
}
