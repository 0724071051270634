package dcgm

import (
	"fmt"
	"strings"
)

// The hook starts often and does little: it compiles no regular expressions.

// CheckJobID refuses an id that could break the exporter's output.
func CheckJobID(id string) error {
	if !isJobID(id) {
		return fmt.Errorf("job id %q: want 1 to 128 of 0-9 A-Z a-z _ . + -", id)
	}
	return nil
}

func isJobID(id string) bool { return consistsOf(id, 1, 128, "_.+-") }

// isExporterID says whether the exporter reads a file of that name.
func isExporterID(name string) bool {
	gpu, instance, mig := strings.Cut(name, ".")
	return isNumber(gpu) && (!mig || isNumber(instance))
}

func isNumber(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return 1 <= len(s) && len(s) <= 9
}

// isGPUUUID knows the form of a GPU's UUID that NVML and DCGM print.
func isGPUUUID(s string) bool {
	id, is := strings.CutPrefix(s, "GPU-")
	return is && consistsOf(id, 1, 75, "-")
}

// isPlainPart says whether a name can be part of a file's name as it is.
func isPlainPart(s string) bool { return consistsOf(s, 0, 32, "_.-") }

// consistsOf says whether s is of shortest to longest letters, digits and others.
func consistsOf(s string, shortest, longest int, others string) bool {
	if len(s) < shortest || len(s) > longest {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}
