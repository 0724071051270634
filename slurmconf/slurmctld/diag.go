package slurmctld

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/topology"
)

// Times are slurmctld's own, in seconds since 1970, and its release.
type Times struct {
	// Now and Counting are of its statistics: the time of the answer, and since when they
	// are counted. Boot is when it started or was reconfigured; data parsers before v0.0.45
	// have none.
	Now, Counting, Boot int64
	// Release is slurmrestd's own, until the answer to conf says that of slurmctld.
	Release slurmconf.Release
}

// Age returns how long ago slurmctld read its files. The statistics count from then, but they
// begin again at midnight UTC.
func (t *Times) Age() (age time.Duration, known bool) {
	const day, minute = 24 * 60 * 60, 60
	read := t.Boot
	if read == 0 && t.Counting%day >= minute {
		read = t.Counting
	}
	if read <= 0 || t.Now < read {
		return 0, false
	}
	return time.Duration(t.Now-read) * time.Second, true
}

// ReadDiag reads Now, Counting and Release from slurmrestd's answer to diag.
func (t *Times) ReadDiag(in io.Reader) error {
	var answer struct {
		Statistics struct {
			Time  number `json:"req_time"`
			Start number `json:"req_time_start"`
		} `json:"statistics"`
		Meta struct {
			Slurm struct {
				Release string `json:"release"`
			} `json:"slurm"`
		} `json:"meta"`
	}
	if err := json.UnmarshalDecode(newDecoder(in), &answer); err != nil {
		return fmt.Errorf("read diag: %w", err)
	}
	t.Now, t.Counting = answer.Statistics.Time.Number, answer.Statistics.Start.Number
	t.Release = slurmconf.SeenRelease(answer.Meta.Slurm.Release)
	return nil
}

// ReadConf reads Boot and Release from slurmrestd's answer to conf.
func (t *Times) ReadConf(in io.Reader) error {
	var answer struct {
		Conf struct {
			Boot    int64  `json:"BOOT_TIME"`
			Version string `json:"SLURM_VERSION"`
		} `json:"slurm_conf_meta"`
	}
	if err := json.UnmarshalDecode(newDecoder(in), &answer); err != nil {
		return fmt.Errorf("read conf: %w", err)
	}
	t.Boot = answer.Conf.Boot
	if release := slurmconf.SeenRelease(answer.Conf.Version); release != 0 {
		t.Release = release
	}
	return nil
}

// ReleaseShown returns slurmctld's release in the output of scontrol show config, or 0.
func ReleaseShown(config string) slurmconf.Release {
	for line := range strings.Lines(config) {
		if key, value, _ := strings.Cut(line, "="); strings.TrimSpace(key) == "SLURM_VERSION" {
			return slurmconf.SeenRelease(strings.TrimSpace(value))
		}
	}
	return 0
}

// ErrorText returns the first error of an answer of slurmrestd, or "".
func ErrorText(text []byte) string {
	var answer struct {
		Errors []struct {
			Description string `json:"description"`
			Error       string `json:"error"`
		} `json:"errors"`
	}
	if json.Unmarshal(text, &answer) != nil || len(answer.Errors) == 0 {
		return ""
	}
	e := answer.Errors[0]
	return topology.Cut(strings.Trim(e.Description+": "+e.Error, ": "), topology.MaxText)
}
