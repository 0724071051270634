package dcgm

import (
	"fmt"
	"strings"
)

// The hook starts often and does little: it compiles no regular expressions.

// CheckJobID refuses an id that could break the exporter's output.
func CheckJobID(id string) error {
	if !isJobID(id) {
		return fmt.Errorf("job id %.80q: want 1 to 128 of 0-9 A-Z a-z _ . + -", id)
	}
	return nil
}

func isJobID(id string) bool { return ConsistsOf(id, 1, 128, "_.+-") }

// IsExporterID says whether the exporter reads a file of that name.
func IsExporterID(name string) bool {
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
	return is && ConsistsOf(id, 1, 75, "-")
}

// ConsistsOf says whether s has shortest to longest bytes, all of them letters,
// digits or one of others.
func ConsistsOf(s string, shortest, longest int, others string) bool {
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
