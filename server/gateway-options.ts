import type { Host } from '../engine/host/host.ts';
import type { Store } from '../protocol/store.ts';
import type { GatewayConfig } from './responses/gateway/gateway-config.ts';

/** Options of the gateway, which `responsesApp` and `chatApp` share if they get the same object. */
export type GatewayOptions = {
  /** Where the runs of requests are. */
  store: Store;
  /** Models, MCP servers, prices and limits, as `readGatewayConfig` returns them. Default: none. */
  config?: GatewayConfig;
  /** `provider:model`. Its provider serves model names that are neither an alias nor `provider:model`. */
  model?: string;
  /** Clock and id generator. Default: the system's. */
  host?: Host;
  /** Receives one line per problem, for the operator; never a secret. Default: a warning of the process. */
  log?(line: string): void;
};
