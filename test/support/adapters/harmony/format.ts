import type { ToolDefinition } from '../../../../protocol/turn.ts';

/**
 * The functions in the document of the published format:
 * https://github.com/openai/harmony/blob/main/docs/format.md.
 */
const FORMAT = { type: 'string', enum: ['celsius', 'fahrenheit'], default: 'celsius' };

export const FORMAT_TOOLS: ToolDefinition[] = [
  {
    name: 'get_location',
    description: 'Gets the location of the user.',
    inputSchema: { type: 'object', properties: {} },
  },
  {
    name: 'get_current_weather',
    description: 'Gets the current weather in the provided location.',
    inputSchema: {
      type: 'object',
      properties: {
        location: { type: 'string', description: 'The city and state, e.g. San Francisco, CA' },
        format: FORMAT,
      },
      required: ['location'],
    },
  },
  {
    name: 'get_multiple_weathers',
    description: 'Gets the current weather in the provided list of locations.',
    inputSchema: {
      type: 'object',
      properties: {
        locations: {
          type: 'array',
          items: { type: 'string' },
          description: 'List of city and state, e.g. ["San Francisco, CA", "New York, NY"]',
        },
        format: FORMAT,
      },
      required: ['locations'],
    },
  },
];

/** Its example of a whole prompt with functions, reasoning, a call and its result. */
export const FORMAT_EXAMPLE = `<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.
Knowledge cutoff: 2024-06
Current date: 2025-06-28

Reasoning: high

# Valid channels: analysis, commentary, final. Channel must be included for every message.
Calls to these tools must go to the commentary channel: 'functions'.<|end|><|start|>developer<|message|># Instructions

Use a friendly tone.

# Tools

## functions

namespace functions {

// Gets the location of the user.
type get_location = () => any;

// Gets the current weather in the provided location.
type get_current_weather = (_: {
// The city and state, e.g. San Francisco, CA
location: string,
format?: "celsius" | "fahrenheit", // default: celsius
}) => any;

// Gets the current weather in the provided list of locations.
type get_multiple_weathers = (_: {
// List of city and state, e.g. ["San Francisco, CA", "New York, NY"]
locations: string[],
format?: "celsius" | "fahrenheit", // default: celsius
}) => any;

} // namespace functions<|end|><|start|>user<|message|>What is the weather like in SF?<|end|><|start|>assistant<|channel|>analysis<|message|>Need to use function get_weather.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"location":"San Francisco"}<|call|><|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>{"sunny": true, "temperature": 20}<|end|><|start|>assistant`;
