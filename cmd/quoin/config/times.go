package config

import (
	"fmt"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
)

// Times are the waits of the programs that no site has a reason to choose. Tests of whole programs shorten
// them. Of those that are zero, the default is that of the program's part.
type Times struct {
	publication.Times `yaml:",inline"`
	// Read is the time between two readings of the machine.
	Read time.Duration `yaml:"read"`
	// Sample is the time between two samples of the GPUs that jobs hold.
	Sample time.Duration `yaml:"sample"`
	// Sweep is the time between two looks for jobs that ended without their Epilog.
	Sweep time.Duration `yaml:"sweep"`
	// IDs is the time between two readings of DCGM's ids.
	IDs time.Duration `yaml:"ids"`
}

// Set sets some of the times, such as "read: 20ms, sample: 1s".
func (t *Times) Set(text string) error {
	dec := yaml.NewDecoder(strings.NewReader("{" + text + "}"))
	dec.KnownFields(true)
	if err := dec.Decode(t); err != nil {
		return fmt.Errorf("times %q: %w", text, err)
	}
	return nil
}
