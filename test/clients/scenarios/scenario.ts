import type { JsonObject } from '../../../protocol/json.ts';
import type { Client } from '../client.ts';
import type { Desk } from '../desk.ts';
import type { Script, WireName } from '../upstream/script.ts';

/** What one client does over one wire, and what has to be true afterwards. */
export type Scenario = {
  /** As in `--only`, such as `pi-chat/anthropic/edits`. */
  name: string;
  client: Client;
  wire: WireName;
  config?: JsonObject;
  files?: Readonly<Record<string, string | Uint8Array>>;
  /** Written once the folder of the client is known. */
  scripts: (desk: Desk) => readonly Script[];
  /** Throws if something is not as it should be. Returns what was found, in a few words. */
  play: (desk: Desk) => Promise<string>;
};
