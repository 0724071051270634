// Package exporter prints what DCGM Exporter would print of GPUs that a test makes
// up: the fields that a counters CSV selects, by the names, units and labels of the
// exporter's generation, each sample once per job that the job mapping directory
// names. It reads that directory by the rules of the exporter's releases 4.5 and
// newer, and fails a whole scrape where they would.
package exporter

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Exporter is one node's.
type Exporter struct {
	// Since49 chooses the names, units and labels of release 4.9 and newer.
	Since49 bool
	// OldNamespace is the flag --use-old-namespace: the label UUID is called uuid.
	OldNamespace bool
	// Hostname is the value of the label Hostname, or hostname.
	Hostname string
	// Driver is the version that the CSV's label row shows.
	Driver string
	// Mapping is the job mapping directory; empty for none.
	Mapping string
	// Counters is the text of the CSV that selects the fields.
	Counters string
}

// Device is a GPU, or one MIG instance of it, and how it is used.
type Device struct {
	// GPU is DCGM's id.
	GPU   int
	UUID  string
	Model string
	// Profile and Instance are of a MIG instance; an empty Profile is none.
	Profile  string
	Instance int
	Use
}

// Use is what DCGM would say of a device, in the units of 4.9.
type Use struct {
	Utilization, Engine, SM, Tensor, DRAM float64 // 0 to 1
	Used, Reserved, Size                  float64 // bytes
	Watts, Limit, Joules                  float64 // no Limit: not told
	Celsius, MemoryCelsius, Hertz         float64
	NVLink, PCIeTX, PCIeRX                float64 // bytes/s
	Xid                                   int
	RowRemapFailed                        bool
	// LinkErrors is a measure of the errors on NVLinks: each kind has its own multiple,
	// and all are 15 times as many.
	LinkErrors, Replays float64
	ClockEvents         int
}

// mappingName is what the exporter takes for a file of the mapping.
var mappingName = regexp.MustCompile(`^\d+(\.\d+)?$`)

// Jobs reads a job mapping directory: the lines of each file, by its name.
func Jobs(dir string) (map[string][]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read job mapping: %w", err)
	}
	jobs := map[string][]string{}
	for _, e := range entries {
		if !mappingName.MatchString(e.Name()) || e.IsDir() {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("read job mapping: %w", err)
		}
		for line := range strings.Lines(string(data)) {
			jobs[e.Name()] = append(jobs[e.Name()], strings.TrimRight(line, "\r\n"))
		}
	}
	return jobs, nil
}

// Write prints the devices as /metrics would.
func (x *Exporter) Write(w io.Writer, devices []Device) error {
	jobs := map[string][]string{}
	if x.Mapping != "" {
		var err error
		if jobs, err = Jobs(x.Mapping); err != nil {
			return err
		}
	}
	counters, err := ParseCounters(x.Counters)
	if err != nil {
		return err
	}
	driver := ""
	for _, c := range counters {
		if c.Type == "label" && x.Driver != "" {
			driver = fmt.Sprintf(`,%s="%s"`, c.Field, x.Driver)
		}
	}
	for _, c := range counters {
		if c.Type != "label" {
			if err := x.writeField(w, c, devices, jobs, driver); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeField prints one family.
func (x *Exporter) writeField(w io.Writer, c Counter, devices []Device, jobs map[string][]string, driver string) error {
	field, ok := fields[c.Field]
	if !ok {
		return fmt.Errorf("field %s: the exporter stand-in does not know it", c.Field)
	}
	if field.since49 != x.Since49 && !field.always {
		return fmt.Errorf("field %s is not of this generation", c.Field)
	}
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", c.Field, c.Help, c.Field, c.Type)
	for i := range devices {
		d := &devices[i]
		value, ok := field.value(d)
		if !ok {
			continue
		}
		labels := x.labels(d) + driver
		key := strconv.Itoa(d.GPU)
		if d.Profile != "" {
			key += "." + strconv.Itoa(d.Instance)
		}
		if len(jobs[key]) == 0 {
			fmt.Fprintf(w, "%s{%s} %s\n", c.Field, labels, value)
		}
		for _, job := range jobs[key] {
			fmt.Fprintf(w, "%s{%s,hpc_job=\"%s\"} %s\n", c.Field, labels, job, value)
		}
	}
	return nil
}

// labels are a device's, in the exporter's order.
func (x *Exporter) labels(d *Device) string {
	uuid := "UUID"
	if x.OldNamespace {
		uuid = "uuid"
	}
	s := fmt.Sprintf(`gpu="%d",%s="%s",pci_bus_id="00000000:%02X:00.0",device="nvidia%d",modelName="%s"`, d.GPU, uuid, d.UUID, 0x10+d.GPU, d.GPU, d.Model)
	if d.Profile != "" {
		s += fmt.Sprintf(`,GPU_I_PROFILE="%s",GPU_I_ID="%d"`, d.Profile, d.Instance)
	}
	name := "Hostname"
	if x.Since49 {
		name = "hostname"
	}
	return s + fmt.Sprintf(`,%s="%s"`, name, x.Hostname)
}
