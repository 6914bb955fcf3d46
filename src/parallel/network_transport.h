// A transport between hosts, and beside it the network of the ranks' devices: memory that the host
// cannot read goes by the network where there is one, everything else by the transport.
//
// Each exchange of devices is one of hosts as well: every rank sends a small word to those that it
// sends device memory to. So a rank that is lost or late is found, and named, as without a network.
#pragma once

#include <memory>

#include "parallel/transport.h"

namespace podium {

// `hosts` is the transport between hosts. No wait for the network is longer than `timeout` seconds.
std::unique_ptr<Transport> network_transport(std::unique_ptr<Transport> hosts, double timeout);

}  // namespace podium
