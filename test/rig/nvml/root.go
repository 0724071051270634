package nvml

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/quoin-hpc/quoin/test/rig/put"
)

// Root returns a folder with the files of /proc and /sys that the kernel and the
// driver of the machine would have. Change keeps it as the machine is.
func (m *Machine) Root() string {
	m.t.Helper()
	if m.root == "" {
		m.root = filepath.Join(filepath.Dir(m.File), "root")
		m.makeRoot()
	}
	return m.root
}

// FirstNamespace is the number of the kernel's first PID namespace.
const FirstNamespace = 4026531836

// Namespace has the programs that read the machine, below its Root, find that they
// are in the PID namespace of a number; without it they find the one they are in.
func (m *Machine) Namespace(number int) {
	m.t.Helper()
	link := filepath.Join(m.Root(), "proc", "self", "ns", "pid")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Remove(link); err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	if err := os.Symlink(fmt.Sprintf("pid:[%d]", number), link); err != nil {
		m.t.Fatal(err)
	}
}

// Reboot gives the machine another boot id, below its Root, and makes it what it
// was at first with more statements.
func (m *Machine) Reboot(more ...string) {
	m.t.Helper()
	number := 0
	if _, err := fmt.Sscanf(m.files[bootFile], bootID, &number); err != nil {
		m.t.Fatalf("boot id of %s: %v; call Root first", m.File, err)
	}
	m.files[bootFile] = fmt.Sprintf(bootID, number+1)
	m.write(bootFile)
	m.Change(more...)
}

// RealBoot gives the machine, below its Root, the boot id of this kernel. The hook
// reads that one: a job of another boot has ended.
func (m *Machine) RealBoot() {
	m.t.Helper()
	m.Root()
	id, err := os.ReadFile(filepath.Join("/", bootFile))
	if err != nil {
		m.t.Fatal(err)
	}
	m.files[bootFile] = string(id)
	m.write(bootFile)
}

// bootFile names the machine's boot, and bootID is its form.
const (
	bootFile = "proc/sys/kernel/random/boot_id"
	bootID   = "3f0c5d1e-0000-4000-8000-%012d\n"
)

func (m *Machine) makeRoot() {
	m.t.Helper()
	files := map[string]string{
		"proc/driver/nvidia-caps/mig-minors": capabilities(),
		bootFile:                             cmp.Or(m.files[bootFile], fmt.Sprintf(bootID, 1)),
		"sys/class/net/lo/type":              "772\n", // there is a sysfs, and no network adapter in it
	}
	data, err := os.ReadFile(m.File)
	if err != nil {
		m.t.Fatal(err)
	}
	sockets := socketsOf(string(data))
	if !m.linkDevices(sockets) {
		addCPUs(files, sockets)
	}
	for name := range m.files {
		if _, ok := files[name]; !ok {
			if err := os.Remove(filepath.Join(m.root, name)); err != nil {
				m.t.Fatal(err)
			}
		}
	}
	before := m.files
	m.files = files
	for name, text := range files {
		if before[name] != text {
			m.write(name)
		}
	}
}

// linkDevices makes the root's sys/devices a link to a folder that all tests share and none
// writes to, and reports whether it is one: there are hundreds of files, which a machine that
// keeps the sockets of its description need not have for itself.
func (m *Machine) linkDevices(sockets [][]string) bool {
	m.t.Helper()
	described := socketsOf(m.text)
	same := slices.EqualFunc(sockets, described, slices.Equal)
	link := filepath.Join(m.root, "sys/devices")
	switch {
	case m.files == nil && same:
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			m.t.Fatal(err)
		}
		if err := os.Symlink(m.devices(sockets), link); err != nil {
			m.t.Fatal(err)
		}
		m.devicesLinked = true
	case m.devicesLinked && !same:
		if err := os.Remove(link); err != nil {
			m.t.Fatal(err)
		}
		m.devicesLinked = false
	}
	return m.devicesLinked
}

// devices returns a folder in the user's cache with the files of sys/devices, made once.
func (m *Machine) devices(sockets [][]string) string {
	m.t.Helper()
	files := map[string]string{}
	addCPUs(files, sockets)
	dir := cacheFolder("nvml-sys-", fmt.Sprint(files))
	if _, err := os.Stat(dir); err == nil {
		return filepath.Join(dir, "sys/devices")
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		m.t.Fatal(err)
	}
	staging, err := os.MkdirTemp(filepath.Dir(dir), "nvml-sys.")
	if err != nil {
		m.t.Fatal(err)
	}
	all := Machine{t: m.t, root: staging, files: files}
	for name := range files {
		all.write(name)
	}
	if err := os.Rename(staging, dir); err != nil { // another test was faster
		_ = os.RemoveAll(staging)
		if _, err := os.Stat(dir); err != nil {
			m.t.Fatal(err)
		}
	}
	return filepath.Join(dir, "sys/devices")
}

// write puts one of the machine's files below its root.
func (m *Machine) write(name string) {
	m.t.Helper()
	put.File(m.t, filepath.Join(m.root, name), m.files[name], 0o600)
}

// socketsOf reads from a machine's file the sockets, which the kernel knows.
func socketsOf(text string) (sockets [][]string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if words := strings.Fields(line); len(words) > 2 && words[0] == "socket" && number(words[2]) > 0 {
			sockets = append(sockets, words[1:])
		}
	}
	return sockets
}

// number reads a number of a file that the library reads too, and refuses.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return max(n, 0)
}

// capabilities is the driver's list of all MIG capabilities that there can be. It does
// not depend on the machine: 135 minor numbers for each GPU from 3 on, 9 of them for
// each GPU instance.
var capabilities = sync.OnceValue(func() string {
	var list strings.Builder
	list.WriteString("config 1\nmonitor 2\n")
	for gpu := range 16 { // 32 in the driver
		for gi := range 15 {
			first := gpu*135 + 3 + gi*9
			fmt.Fprintf(&list, "gpu%d/gi%d/access %d\n", gpu, gi, first)
			for ci := range 8 {
				fmt.Fprintf(&list, "gpu%d/gi%d/ci%d/access %d\n", gpu, gi, ci, first+1+ci)
			}
		}
	}
	return list.String()
})

// addCPUs adds the CPUs of sockets, each a list of CPUs and the threads of a
// core: of two, the first half of the list has the cores' first threads.
func addCPUs(files map[string]string, sockets [][]string) {
	const dir = "sys/devices/system/cpu/"
	var online []int
	for _, words := range sockets {
		cpus := expand(words[0])
		cores := max(1, len(cpus)/number(words[1]))
		online = append(online, cpus...)
		for i, cpu := range cpus {
			var siblings []string
			for k := i % cores; k < len(cpus); k += cores {
				siblings = append(siblings, strconv.Itoa(cpus[k]))
			}
			topology := fmt.Sprintf("%scpu%d/topology/", dir, cpu)
			files[topology+"package_cpus_list"] = ranges(cpus) + "\n"
			files[topology+"core_cpus_list"] = strings.Join(siblings, ",") + "\n"
		}
	}
	files[dir+"online"] = ranges(online) + "\n"
}

// ranges writes numbers as the kernel does: 0-3,8.
func ranges(numbers []int) string {
	slices.Sort(numbers)
	var parts []string
	for from := 0; from < len(numbers); {
		to := from
		for to+1 < len(numbers) && numbers[to+1] == numbers[to]+1 {
			to++
		}
		part := strconv.Itoa(numbers[from])
		if to > from {
			part += "-" + strconv.Itoa(numbers[to])
		}
		parts, from = append(parts, part), to+1
	}
	return strings.Join(parts, ",")
}

// maxCPU bounds the numbers of CPUs of which files are made.
const maxCPU = 1023

func expand(list string) []int {
	var out []int
	for part := range strings.SplitSeq(list, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		for n := number(from); n <= min(number(to), maxCPU); n++ {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
