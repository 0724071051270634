package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// SetFlag is the flag that sets any key.
const SetFlag = "--set"

// Setting is a value that the command line gives to a key.
type Setting struct {
	// Key is such as agent.runDir, publicationDefaults.format or publications.hgx.format.
	// publications.*.format is the key of all publications, whatever they say themselves.
	Key string
	// Value is the text of the value. A list is written with commas, pairs as a=b,c=d,
	// or both as in YAML.
	Value string
	// Flag is what was given: SetFlag, or a flag that sets this key only.
	Flag string
}

// ParseSetting splits key=value as it is given to SetFlag.
func ParseSetting(text string) (Setting, error) {
	key, value, ok := strings.Cut(text, "=")
	if !ok || key == "" {
		return Setting{}, errors.New("want key=value, such as publisher.listen=:9836")
	}
	return Setting{key, value, SetFlag}, nil
}

// Given returns the flags of a file and of settings, for a command that is advised. There
// is a blank before each.
func Given(file string, settings []Setting) string {
	text := ""
	if file != "" {
		text = Flag("--config", file)
	}
	for _, s := range settings {
		value := s.Value
		if s.Flag == SetFlag {
			value = s.Key + "=" + s.Value
		}
		text += Flag(s.Flag, value)
	}
	return text
}

// plainWord is what a shell reads as it is.
var plainWord = regexp.MustCompile(`^[\w./:=@%+,-]+$`)

// Flag returns a blank, the flag, and its value as a shell reads it.
func Flag(flag, value string) string {
	if !plainWord.MatchString(value) {
		value = "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	return " " + flag + " " + value
}

// set gives a key its value. A setting is read as a document with this key alone.
func (r *reader) set(c *Config, s Setting) error {
	r.flag = s.Flag
	document, err := s.document()
	if err != nil {
		return fmt.Errorf("%s %s=%s: %w", s.Flag, s.Key, s.Value, err)
	}
	return r.read(c, document)
}

// document returns the setting as YAML.
func (s *Setting) document() ([]byte, error) {
	shown, section := find(s.Key)
	if n, _ := find(section); shown == nil && isSection(n) {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(s.Key, section), "."), ".")
		return nil, errors.New(unknown(section, name))
	} else if shown == nil {
		return nil, fmt.Errorf("%s has no keys below it", section)
	}
	n, err := valueLike(shown, s.Value)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Backward(strings.Split(s.Key, ".")) {
		n = yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text(name), new(n)}}
	}
	return yaml.Marshal(&n)
}

func text(value string) *yaml.Node {
	var n yaml.Node
	n.SetString(value)
	return &n
}

// valueLike reads the text of a setting as a value of the kind that the default is: as it is for
// a text, with commas for a list, as a=b,c=d for pairs, and else as YAML.
func valueLike(shown *yaml.Node, value string) (n yaml.Node, err error) {
	switch {
	case shown.Kind == yaml.ScalarNode && shown.ShortTag() == "!!str":
		return *text(value), nil
	case shown.Kind == yaml.SequenceNode && !strings.HasPrefix(value, "["):
		value = "[" + value + "]"
	case shown.Kind == yaml.MappingNode && !isSection(shown) && !strings.HasPrefix(value, "{"):
		pairs := map[string]string{}
		for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' }) {
			key, value, ok := strings.Cut(part, "=")
			if !ok {
				return n, errors.New("want pairs such as NVIDIA GB200=gb")
			}
			pairs[key] = value
		}
		return n, n.Encode(pairs)
	}
	if err := yaml.Unmarshal([]byte(value), &n); err != nil {
		return n, fmt.Errorf("want a value as in YAML: %w", err)
	}
	if n.Kind == yaml.DocumentNode {
		return *n.Content[0], nil
	}
	return yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}, nil // of an empty text
}
