import { PLAYED } from './played-scenes.ts';
import type { Scene } from './stage.ts';
import { STEERED } from './steered-scenes.ts';

/** Runs that have been everywhere a run can be, by what happened in them. */
export const SCENES: Readonly<Record<string, () => Promise<Scene>>> = { ...PLAYED, ...STEERED };
