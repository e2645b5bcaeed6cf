//! The common form of all enums of assigned numbers: named values, and a variant for unknown ones.

/// Declares an enum of assigned numbers with `Unknown(n)` and conversions in both directions.
macro_rules! code_points {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident: $number:ty {
            $($variant:ident = $code:literal $text:literal,)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
        )]
        pub enum $name {
            $(#[doc = concat!($text, " (", $code, ").")] $variant,)*
            /// A number without a name here.
            Unknown($number),
        }

        impl $name {
            /// Returns the meaning of a number.
            #[inline]
            pub const fn from_code(code: $number) -> Self {
                match code {
                    $($code => Self::$variant,)*
                    other => Self::Unknown(other),
                }
            }

            /// Returns the number.
            #[inline]
            pub const fn code(self) -> $number {
                match self {
                    $(Self::$variant => $code,)*
                    Self::Unknown(other) => other,
                }
            }

            /// Returns the name in the standard, or `unknown`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                    Self::Unknown(_) => "unknown",
                }
            }
        }

        impl From<$number> for $name {
            #[inline]
            fn from(code: $number) -> Self {
                Self::from_code(code)
            }
        }

        impl From<$name> for $number {
            #[inline]
            fn from(value: $name) -> $number {
                value.code()
            }
        }
    };
}
