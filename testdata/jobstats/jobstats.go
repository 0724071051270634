// Package jobstats reads AdminComments as Jobstats 1.0 of Princeton University does.
package jobstats

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// Unpack reads an AdminComment, which is a JSON object.
func Unpack(comment string, out any) error {
	packed, is := strings.CutPrefix(comment, "JS1:")
	if !is {
		return errors.New("no mark")
	}
	data, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return err
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// Breaks says what of a summary ends Jobstats 1.0 with an exception, or has
// it say what is not so: it reads cpus and both memories of each node where it
// prints, divides by cpus, reads gpu_used_memory by the keys of gpu_total_memory and
// divides by that.
func Breaks(summary map[string]any) string {
	for name, v := range summary["nodes"].(map[string]any) {
		node := v.(map[string]any)
		for _, key := range []string{"cpus", "total_memory", "used_memory"} {
			if _, there := node[key].(float64); !there {
				return name + " lacks " + key
			}
		}
		if node["cpus"].(float64) < 1 {
			return name + " has no CPU"
		}
		if _, there := node["total_time"]; there {
			return name + " has a time of the CPUs, which nobody knows"
		}
		total, hasTotal := node["gpu_total_memory"].(map[string]any)
		used, hasUsed := node["gpu_used_memory"].(map[string]any)
		if hasTotal != hasUsed || len(total) != len(used) || hasTotal && len(total) == 0 {
			return name + " has memory of some GPUs"
		}
		for gpu, bytes := range total {
			if u, there := used[gpu].(float64); !there || bytes.(float64) <= 0 || u > bytes.(float64) {
				return name + ": memory of GPU " + gpu
			}
		}
		utilization, _ := node["gpu_utilization"].(map[string]any)
		for gpu, share := range utilization {
			if u := share.(float64); u < 0 || u > 100 {
				return name + ": utilisation of GPU " + gpu
			}
		}
	}
	return ""
}
