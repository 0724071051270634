package config

import (
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// Times are waits that no site has a reason to choose. Tests of whole programs shorten them. Zero is the
// default of the part that waits.
type Times struct {
	publication.Times `yaml:",inline"`

	Read   time.Duration `yaml:"read"`   // between two readings of the machine
	Sample time.Duration `yaml:"sample"` // between two samples of the GPUs of jobs
	Sweep  time.Duration `yaml:"sweep"`  // between two looks for jobs that ended without their Epilog
	IDs    time.Duration `yaml:"ids"`    // between two readings of DCGM's ids
}

// Set sets some of the times, such as "read: 20ms, sample: 1s".
func (t *Times) Set(text string) error {
	dec := yaml.NewDecoder(strings.NewReader("{" + text + "}"))
	dec.KnownFields(true)
	return dec.Decode(t)
}
