import { PLAYED } from './played-scenes.ts';
import type { Scene } from './stage.ts';
import { STEERED } from './steered-scenes.ts';

/** Runs that cover every state, by name. */
export const SCENES: Readonly<Record<string, () => Promise<Scene>>> = { ...PLAYED, ...STEERED };
