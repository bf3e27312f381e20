import type { ScriptedCall } from './upstream/script.ts';

/** Where a client works, and where it finds the gateway. */
type Place = {
  /** The origin of the gateway, without a path. */
  url: string;
  key: string;
  /** The folder it works in. */
  work: string;
  model: string;
};

/** A coding agent that is installed as it is: its documented settings, its command and its tools. */
export type Client = {
  /** As in `--only`. */
  name: string;
  /** Its package in `versions.json`. */
  package: string;
  /** The model that it asks for: an alias of the gateway's configuration. */
  model: string;
  /** Files in its home, by name: only what its documentation says about base URL, key and model, and no telemetry. */
  settings: (place: Place) => Readonly<Record<string, string>>;
  variables: (place: Place) => Readonly<Record<string, string>>;
  /** The arguments for one prompt, without a terminal. */
  words: (place: Place, asked: Asked) => string[];
  /** Its API has no place for the provider's data: reasoning from before a new prompt or a restart does not come back. */
  forgets?: true;
  /** Its tools, as the model calls them. `file` is a name in the folder. */
  tools: {
    read: (place: Place, file: string) => ScriptedCall;
    write: (place: Place, file: string, content: string) => ScriptedCall;
    edit: (place: Place, file: string, from: string, to: string) => ScriptedCall;
    shell: (place: Place, command: string) => ScriptedCall;
  };
};

type Asked = {
  prompt: string;
  /** Continues the last session of the folder. */
  continues?: boolean;
  /** The name of a picture in the folder. */
  image?: string;
};
