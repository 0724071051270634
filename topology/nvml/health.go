//go:build cgo

package nvml

import (
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/quoin-hpc/quoin/topology"
)

// configurations name the values of the health mask's field "incorrect
// configuration".
var configurations = [...]string{
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NOT_SUPPORTED:        "",
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NONE:                 "none",
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INCORRECT_SYSGUID:    "systemGUID",
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INCORRECT_CHASSIS_SN: "chassisSerial",
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_NO_PARTITION:         "noPartition",
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INSUFFICIENT_NVLINKS: "insufficientNVLinks",
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INCOMPATIBLE_GPU_FW:  "incompatibleFirmware",
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_INVALID_LOCATION:     "invalidLocation",
	nvml.GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION_GPU_STATE_INVALID:    "gpuState",
}

// healthOf takes NVML's health mask apart.
func healthOf(mask uint32) topology.FabricHealth {
	h := topology.FabricHealth{
		DegradedBandwidth:     answerAt(mask, nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW),
		RouteRecovery:         answerAt(mask, nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_RECOVERY),
		RouteUnhealthy:        answerAt(mask, nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ROUTE_UNHEALTHY),
		AccessTimeoutRecovery: answerAt(mask, nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_ACCESS_TIMEOUT_RECOVERY),
		PartitionAssigned:     answerAt(mask, nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_PARTITION_ASSIGNED),
	}
	c := mask >> nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_INCORRECT_CONFIGURATION & nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_INCORRECT_CONFIGURATION
	if int(c) < len(configurations) {
		h.IncorrectConfiguration = configurations[c]
	} else {
		h.IncorrectConfiguration = fmt.Sprint(c)
	}
	return h
}

// answerAt reads a field of two bits: 1 is true, 2 is false. Anything else is not
// supported: nil.
func answerAt(mask uint32, shift int) *bool {
	var answer bool
	switch mask >> shift & nvml.GPU_FABRIC_HEALTH_MASK_WIDTH_DEGRADED_BW {
	case nvml.GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_TRUE:
		answer = true
	case nvml.GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_FALSE:
	default:
		return nil
	}
	return &answer
}
